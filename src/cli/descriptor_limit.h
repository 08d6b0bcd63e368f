// How many connections the system lets this program have open.
#pragma once

namespace holdfast::cli {

// A descriptor a connection: raises this process's soft limit to its hard one, where the system allows it.
void RaiseDescriptorLimit();

}  // namespace holdfast::cli
