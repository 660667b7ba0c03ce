#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "apps/gpt_model/gpt_graph.h"

namespace weft::test {

/// Initial values and tokens in files, so that another system can train on the same and its losses can be compared:
///   weights.f32   all parameters, one after the other, as f32
///   weights.json  [{"name": ..., "shape": [...], "offset": elements before it}, ...]
///   tokens.i32    i32[steps, 2, batch, sequence]: tokens and the targets that follow them
/// Tokens follow a fixed rule with noise, so that there is something to learn.
void write_fixed_data(const std::filesystem::path& folder, const apps::GptShape& shape, const Graph& graph, std::uint64_t seed,
                      int steps);

/// tokens.i32, whole. Throws Error(kUnavailable) if it cannot be read, Error(kInvalidArgument) if it does not fit the shape.
class FixedTokens {
 public:
  FixedTokens(const std::filesystem::path& folder, const apps::GptShape& shape);
  int steps() const { return static_cast<int>(data_.size() / (2 * size_)); }
  std::span<const std::int32_t> tokens(int step) const { return {data_.data() + 2 * at(step), size_}; }
  std::span<const std::int32_t> targets(int step) const { return {data_.data() + 2 * at(step) + size_, size_}; }

 private:
  std::size_t at(int step) const { return static_cast<std::size_t>(step) * size_; }

  std::size_t size_;
  std::vector<std::int32_t> data_;
};

}  // namespace weft::test
