#pragma once

#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/philox.h"
#include "core/codec/codec.h"
#include "mesh/runtime/batch_source.h"

namespace weft::test {

/// Random sequences of token ids that a model can partly learn, because each token depends on the
/// previous one. A pure function of (split, step, sequence of the batch, position).
class RandomBatches final : public mesh::BatchSource {
 public:
  struct Config {
    std::int64_t sequences_per_microbatch = 1;
    std::int64_t vocabulary = 2;
    std::uint64_t seed = 0;
    /// First step in which reading the targets of the first microbatch takes `stuck_for`, so that
    /// the reader looks stuck.
    std::uint64_t stuck_from = std::numeric_limits<std::uint64_t>::max();
    Nanoseconds stuck_for = std::chrono::seconds(30);
    static constexpr auto fields =
        weft::fields(&Config::sequences_per_microbatch, &Config::vocabulary, &Config::seed,
                     &Config::stuck_from, &Config::stuck_for);
  };
  explicit RandomBatches(const Config& config)
      : sequences_(config.sequences_per_microbatch),
        vocabulary_(config.vocabulary),
        seed_(config.seed),
        stuck_from_(config.stuck_from),
        stuck_for_(config.stuck_for) {}

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int /*microbatches*/, const Region& region, std::span<std::byte> out) override {
    if (input == "targets" && step >= stuck_from_ && microbatch == 0)
      std::this_thread::sleep_for(stuck_for_);
    const std::int64_t shift = input == "targets" ? 1 : 0;
    std::vector<std::int32_t> ids;
    for (std::int64_t row = region[0].begin; row < region[0].end; ++row) {
      const std::int64_t sequence = microbatch * sequences_ + row;
      for (std::int64_t column = region[1].begin; column < region[1].end; ++column)
        ids.push_back(token(split, step, sequence, column + shift));
    }
    std::memcpy(out.data(), ids.data(), out.size());
  }

 private:
  std::int32_t token(mesh::Split split, std::uint64_t step, std::int64_t sequence,
                     std::int64_t position) const {
    const std::uint64_t stream =
        (step * 1000003 + sequence) * 2 + (split == mesh::Split::kTrain ? 0 : 1);
    std::int64_t value = 0;
    for (std::int64_t i = 0; i <= position; ++i) {
      const std::uint32_t word = philox(seed_, stream, i)[0];
      value = word % 4 == 0 ? word / 4 % vocabulary_ : (value * 3 + 1) % vocabulary_;
    }
    return value;
  }

  const std::int64_t sequences_;
  const std::int64_t vocabulary_;
  const std::uint64_t seed_;
  const std::uint64_t stuck_from_;
  const Nanoseconds stuck_for_;
};

/// Makes batches as an OpenBatches function. `prepared` is an encoded RandomBatches::Config.
inline std::unique_ptr<mesh::BatchSource> open_random_batches(std::span<const std::byte> prepared) {
  return std::make_unique<RandomBatches>(decode<RandomBatches::Config>(prepared));
}

}  // namespace weft::test
