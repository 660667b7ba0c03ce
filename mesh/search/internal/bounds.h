#pragma once

#include "mesh/search/search.h"

namespace weft::mesh {

/// Returns a lower bound of the step time of any schedule of the same work on the same actors,
/// without memory limits. bounds.cc has the proofs.
double lower_bound(const SearchRequest& request);

/// Returns a lower bound for schedules within the request's memory limits, with microbatches in
/// order on every stage. At least lower_bound().
double lower_bound_in_memory(const SearchRequest& request);

}  // namespace weft::mesh
