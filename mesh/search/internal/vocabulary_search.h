#pragma once

#include <span>

#include "mesh/search/search.h"

namespace weft::mesh {

/// Implements search_schedule() for a split vocabulary. The request has a budget. Adds passes to
/// the schedules `named`, which have none, and to the result of `search_plain` for the stages
/// alone. Then moves single actions of the best candidates.
SearchResult search_with_vocabulary(const SearchRequest& request, std::span<const Schedule> named,
                                    SearchResult (*search_plain)(const SearchRequest& request));

}  // namespace weft::mesh
