#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "mesh/runtime/batch_source.h"

namespace weft::test {

/// Random pictures whose pixel classes can be learned: 1 for bright pixels, 0 for dark ones, 2 in a
/// square. A pure function of (split, step, picture of the batch, pixel). Has the inputs "pixels",
/// "targets" and "weights" of a segmentation.
class RandomPictures final : public mesh::BatchSource {
 public:
  RandomPictures(std::int64_t rows_per_microbatch, std::uint64_t seed)
      : rows_(rows_per_microbatch), seed_(seed) {}

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int /*microbatches*/, const Region& region, std::span<std::byte> out) override {
    std::byte* to = out.data();
    const auto put = [&](auto value) {
      std::memcpy(to, &value, sizeof value);
      to += sizeof value;
    };
    for (std::int64_t row = region[0].begin; row < region[0].end; ++row) {
      const std::uint64_t picture = (step * 1000003 + (microbatch * rows_ + row)) * 2 +
                                    (split == mesh::Split::kTrain ? 0 : 1);
      const std::int64_t corner = philox(seed_, picture, 0)[0] % 4;
      for (std::int64_t i = region[1].begin; i < region[1].end; ++i) {
        for (std::int64_t j = region[2].begin; j < region[2].end; ++j) {
          const bool in_square = i >= corner && i < corner + 3 && j >= corner && j < corner + 3;
          const float noise = uniform_float(philox(seed_, picture, 1 + i * 1000 + j)[0]) - 0.5f;
          const bool bright = noise > 0.2f;
          if (input == "pixels") {
            put(in_square ? 3 + noise : noise);
          } else if (input == "targets") {
            put(std::int32_t{in_square ? 2 : bright ? 1 : 0});
          } else {
            put(in_square ? 2.0f : 0.75f);
          }
        }
      }
    }
  }

 private:
  const std::int64_t rows_;
  const std::uint64_t seed_;
};

}  // namespace weft::test
