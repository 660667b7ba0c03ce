#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "apps/data/picture.h"
#include "apps/select_input/prepare_input.h"

namespace weft::apps {

/// Returns the pictures of rows of a prepared input. Their longer side has at most `side` pixels,
/// and less if an integer enlargement requires it. Throws as reading the pictures does.
std::map<std::uint64_t, Picture> pictures_of_rows(const SelectInput& input,
                                                  const PreparedInput& prepared,
                                                  const std::set<std::uint64_t>& rows, int side);

/// Returns the texts of rows. Throws as reading them does, and Error(kDataLoss) if a file has
/// become shorter.
std::map<std::uint64_t, std::string> texts_of_rows(const SelectInput& input,
                                                   const PreparedInput& prepared,
                                                   const std::set<std::uint64_t>& rows);

}  // namespace weft::apps
