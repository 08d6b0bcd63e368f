#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace holdfast::cli {

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) != 0),
      next_(std::chrono::steady_clock::now() + std::chrono::milliseconds(250)) {}

ProgressBar::~ProgressBar() {
  Clear();
}

void ProgressBar::Show(int64_t done, int64_t total) {
  if (!terminal_ || total <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  constexpr int kWidth = 30;
  const auto filled = static_cast<int>(std::clamp<int64_t>(done * kWidth / total, 0, kWidth));
  const std::string bar =
      std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kWidth - filled), '.');
  std::fprintf(stderr, "\r%s [%s] %3d %%", label_.c_str(), bar.c_str(), static_cast<int>(done * 100 / total));
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::Clear() {
  if (!drawn_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace holdfast::cli
