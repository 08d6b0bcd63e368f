#include "server/response_head.h"

#include <arpa/inet.h>

#include <cstdio>
#include <ctime>

namespace holdfast::server {
namespace {

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

// As RFC 9110, section 5.6.7, whatever the locale.
std::string DateNow() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm t = {};
  gmtime_r(&now, &t);
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %d %02d:%02d:%02d GMT", kDays[t.tm_wday], t.tm_mday,
                kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
  return text;
}

std::string Begin(int status, const std::string& type, const ResponseForm& form) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " " + ReasonOf(status) + "\r\n";
  head += "Date: " + DateNow() + "\r\nServer: holdfast\r\nContent-Type: " + type + "\r\n";
  head += "X-Content-Type-Options: nosniff\r\n";
  if (!form.keep_alive) {
    head += "Connection: close\r\n";
  } else if (form.http_1_0) {
    head += "Connection: keep-alive\r\n";
  }
  return head;
}

}  // namespace

std::string ResponseHead(const HttpAnswer& answer, const ResponseForm& form) {
  std::string head = Begin(answer.status, answer.type, form);
  head += "Cache-Control: no-store\r\n";
  for (const auto& [name, value] : answer.headers) head += name + ": " + value + "\r\n";
  return head + "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n";
}

std::string StreamHead(const ResponseForm& form) {
  const ResponseForm chosen{form.http_1_0, form.keep_alive && !form.http_1_0};
  std::string head = Begin(200, "text/event-stream; charset=utf-8", chosen);
  head += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (!form.http_1_0) head += "Transfer-Encoding: chunked\r\n";
  return head + "\r\n";
}

std::string HttpChunk(std::string_view bytes) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return std::string(size).append(bytes).append("\r\n");
}

bool IsOwnOrigin(std::string_view origin, std::string_view host) {
  if (origin.empty()) return true;
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == host;
}

bool IsLocalHost(std::string_view host) {
  if (host.starts_with('[')) return true;  // an IPv6 address
  host = host.substr(0, host.find(':'));
  if (host.find('.') == std::string_view::npos || host.ends_with(".localhost")) return true;
  in_addr address = {};
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

}  // namespace holdfast::server
