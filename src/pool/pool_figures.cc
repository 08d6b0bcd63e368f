#include "holdfast/pool_figures.h"

namespace holdfast {

std::string_view MissCauseName(MissCause cause) {
  switch (cause) {
    case MissCause::kNone:
      return "none";
    case MissCause::kNew:
      return "new";
    case MissCause::kTokenDiffers:
      return "token_differs";
    case MissCause::kOtherNamespace:
      return "other_namespace";
    case MissCause::kOtherConfig:
      return "other_config";
    case MissCause::kEvicted:
      return "evicted";
    case MissCause::kWindowGone:
      return "window_gone";
    case MissCause::kDisabled:
      return "disabled";
  }
  return "";
}

}  // namespace holdfast
