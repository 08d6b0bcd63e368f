// What the server says of itself and of its engine: /metrics and /v1/cache.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "holdfast/serving.h"
#include "server/json_body.h"

namespace holdfast::server {

// Counted by the server itself.
struct HttpFigures {
  int64_t connections = 0;  // open now
  int64_t connections_total = 0;
  int64_t clients_left = 0;          // before their answer was through: dropped, with what ran for them
  int64_t body_bytes = 0;            // of requests that are being read
  std::map<int, int64_t> responses;  // by status
};

// Prometheus' text format 0.0.4.
std::string MetricsText(const ServingMetrics& metrics, const PoolSnapshot& pool, const HttpFigures& http);
inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// {"budget_bytes", "allocated_bytes", "blocks": {...}, "sequences": [...], "hits", "misses": {cause: n}, ...}
OrderedJson CacheJson(const PoolSnapshot& pool);

}  // namespace holdfast::server
