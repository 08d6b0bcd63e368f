// Heads of responses as bytes. Pure.
#pragma once

#include <string>
#include <string_view>

#include "server/endpoints.h"

namespace holdfast::server {

struct ResponseForm {
  bool http_1_0 = false;
  bool keep_alive = true;
};

// Status line and headers, with the length of answer.body.
std::string ResponseHead(const HttpAnswer& answer, const ResponseForm& form);
// Of an event stream: chunks, or, for HTTP/1.0, everything up to the end of the connection.
std::string StreamHead(const ResponseForm& form);
// Bytes as one chunk of a chunked body. REQUIRES they are not empty.
std::string HttpChunk(std::string_view bytes);
inline constexpr std::string_view kLastHttpChunk = "0\r\n\r\n";

// Whether an Origin header is of a page that this server sent: absent, or the Host that was asked. A browser
// sends one with what a page of another site makes it ask.
bool IsOwnOrigin(std::string_view origin, std::string_view host);
// Whether a Host header is of a name that nobody elsewhere can have given this machine: an address, a name of one label, or
// one below `localhost`. A page may come from a name of its own site that was made to point here (DNS rebinding); what it
// asks then has that name as its Host and its Origin.
bool IsLocalHost(std::string_view host);

}  // namespace holdfast::server
