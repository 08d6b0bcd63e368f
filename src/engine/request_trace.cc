#include "holdfast/request_trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/status_macros.h"
#include "models/json_reader.h"

namespace holdfast {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 32;       // tokens of a prompt or an answer
constexpr int64_t kMaxTimestampMs = int64_t{1} << 43;  // 278 years
constexpr JsonLimits kLineLimits{.max_bytes = 64 << 20, .max_depth = 16, .max_values = 9 << 20};

Result<int64_t> IntegerOf(const nlohmann::json& value, const std::string& where, int64_t lowest,
                          int64_t highest) {
  const std::string wanted =
      ", must be a whole number in [" + std::to_string(lowest) + ", " + std::to_string(highest) + "]";
  if (!value.is_number_integer()) return InvalidArgument(where + " has type " + JsonTypeName(value) + wanted);
  // A number past int64 would wrap where it is read as one.
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(highest)) {
    return InvalidArgument(where + " is " + std::to_string(value.get<uint64_t>()) + wanted);
  }
  const auto number = value.get<int64_t>();
  if (number < lowest || number > highest)
    return InvalidArgument(where + " is " + std::to_string(number) + wanted);
  return number;
}

Result<int64_t> Field(const nlohmann::json& line, const char* name, const std::string& where, int64_t lowest,
                      int64_t highest) {
  const auto found = line.find(name);
  if (found == line.end()) return InvalidArgument(where + ": " + name + " is missing");
  return IntegerOf(*found, where + ": " + name, lowest, highest);
}

Result<TraceRequest> ParseLine(const std::string& text, const std::string& where) {
  auto json = ParseJson(text, kLineLimits, where);
  if (!json.ok()) return InvalidArgument(json.status().message());
  if (!json->is_object())
    return InvalidArgument(where + " has type " + JsonTypeName(*json) + ", must be an object");
  TraceRequest request;
  HF_ASSIGN_OR_RETURN(request.timestamp_ms, Field(*json, "timestamp", where, 0, kMaxTimestampMs));
  HF_ASSIGN_OR_RETURN(request.input_tokens, Field(*json, "input_length", where, 1, kMaxLength));
  HF_ASSIGN_OR_RETURN(request.output_tokens, Field(*json, "output_length", where, 0, kMaxLength));
  const auto ids = json->find("hash_ids");
  if (ids == json->end()) return InvalidArgument(where + ": hash_ids is missing");
  if (!ids->is_array()) {
    return InvalidArgument(where + ": hash_ids has type " + JsonTypeName(*ids) + ", must be an array");
  }
  const auto blocks =
      static_cast<uint64_t>((request.input_tokens + kTraceBlockTokens - 1) / kTraceBlockTokens);
  if (ids->size() != blocks) {
    return InvalidArgument(where + ": hash_ids has " + std::to_string(ids->size()) + " ids, input_length " +
                           std::to_string(request.input_tokens) + " takes " + std::to_string(blocks) +
                           " blocks of " + std::to_string(kTraceBlockTokens));
  }
  request.hash_ids.reserve(ids->size());
  for (const nlohmann::json& id : *ids) {
    HF_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(id, where + ": an id of hash_ids", 0, INT64_MAX));
    request.hash_ids.push_back(number);
  }
  return request;
}

}  // namespace

Result<std::vector<TraceRequest>> ReadRequestTrace(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("trace: " + path + ": " + std::strerror(errno != 0 ? errno : ENOENT));
  std::vector<TraceRequest> requests;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = "trace: " + path + ": line " + std::to_string(number);
    HF_ASSIGN_OR_RETURN(TraceRequest request, ParseLine(line, where));
    if (!requests.empty() && request.timestamp_ms < requests.back().timestamp_ms) {
      return InvalidArgument(where + ": timestamp is " + std::to_string(request.timestamp_ms) +
                             ", the line before has " + std::to_string(requests.back().timestamp_ms));
    }
    requests.push_back(std::move(request));
  }
  if (file.bad()) return IoError("trace: " + path + ": reading failed");
  if (requests.empty()) return InvalidArgument("trace: " + path + ": 0 requests, must have at least 1");
  return requests;
}

}  // namespace holdfast
