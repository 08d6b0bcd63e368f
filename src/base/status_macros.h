// Early return on a failed Status or Result, for use inside the library.
#pragma once

#include "holdfast/status.h"

#define HF_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::holdfast::Status hf_status_ = (expr);  \
    if (!hf_status_.ok()) return hf_status_; \
  } while (false)

#define HF_CONCAT_INNER_(a, b) a##b
#define HF_CONCAT_(a, b) HF_CONCAT_INNER_(a, b)

// HF_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
#define HF_ASSIGN_OR_RETURN(lhs, expr) HF_ASSIGN_OR_RETURN_IMPL_(HF_CONCAT_(hf_result_, __LINE__), lhs, expr)
// NOLINTBEGIN(bugprone-macro-parentheses): lhs may declare, and result is declared.
#define HF_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                              \
  if (!result.ok()) return result.status();          \
  lhs = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
