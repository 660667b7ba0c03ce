#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/train/training_app.h"
#include "core/codec/codec.h"

namespace weft::apps {

/// The batch source of an app in a device process: made by the app from what its driver has
/// prepared.
template <typename App>
class AppBatches final : public mesh::BatchSource {
 public:
  struct Config {
    std::vector<std::byte> batches;  ///< See PreparedData.
    static constexpr auto fields = weft::fields(&Config::batches);
  };
  explicit AppBatches(const Config& config) : source_(App().open_batches(config.batches)) {}

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override {
    source_->read(input, split, step, microbatch, microbatches, region, out);
  }

 private:
  std::unique_ptr<mesh::BatchSource> source_;
};

}  // namespace weft::apps
