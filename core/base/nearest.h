#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Returns the candidate closest to `name`, or nullopt if none is close. The distance (inserted,
/// removed, replaced or swapped letters; optimal string alignment) must be at most a third of the
/// longer name, and at most 3. nearest_name("microbatchs", {"stages", "microbatches"}) is
/// "microbatches".
std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates);

/// Returns "; did you mean 'microbatches'?", or "" if no candidate is close.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace weft
