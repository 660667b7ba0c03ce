#pragma once

#include <vector>

namespace weft {

/// Returns the median; for an even count the mean of the middle two; 0 for no values.
double median(std::vector<double> values);

}  // namespace weft
