#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The candidate that `name` was most likely meant to be, or nothing when none is close: the number
/// of inserted, removed, replaced or swapped letters (optimal string alignment) is at most a third
/// of the longer name, and at most 3. nearest_name("microbatchs", {"stages", "microbatches"}) is
/// "microbatches".
std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates);

/// "; did you mean 'microbatches'?" or "" when no candidate is close.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace weft
