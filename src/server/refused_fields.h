// Fields that other servers act on and this one does not: refused by name, because to ignore them would give
// another answer than the one asked for.
#pragma once

#include "server/field_reader.h"

namespace holdfast::server {

// Fails for the first such field whose value asks for something.
void RefuseFields(FieldReader& fields);

}  // namespace holdfast::server
