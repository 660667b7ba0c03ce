#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "core/tensor/region.h"

namespace weft::mesh {

/// Part of the data that a step reads.
enum class Split : std::uint8_t { kTrain, kValidation };

/// Source of a device's data inputs. Implemented by the app over its data set; each device reads
/// only its own region. Must be a pure function of its arguments, so that replicas read the same
/// bytes. Owner's thread only.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Writes `region` of the input named `input` of one microbatch into `out`, dense and row-major.
  /// Dimension 0 counts the sequences of the microbatch; `microbatches` such microbatches make the
  /// batch of a step.
  virtual void read(std::string_view input, Split split, std::uint64_t step, int microbatch,
                    int microbatches, const Region& region, std::span<std::byte> out) = 0;
};

/// Makes the source in a device process. `prepared`: bytes from the driver, in a format of the app.
using OpenBatches =
    std::function<std::unique_ptr<BatchSource>(std::span<const std::byte> prepared)>;

}  // namespace weft::mesh
