#pragma once

#include "core/base/clock.h"
#include "tests/bench/duplex/channel.h"
#include "tests/bench/duplex/streams.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::bench {

/// Carrier that uses Weft's transfer engine: a transfer per tensor, planned for links of this rate,
/// as for the edges of a pipeline.
class EngineCarrier final : public Carrier {
 public:
  EngineCarrier(std::uint32_t self, double bytes_per_second, const Channel& channel);

  Times run(const Stream& out, const Stream& in, std::int64_t start) override;

 private:
  const std::uint32_t self_;
  const double bytes_per_second_;
  const SteadyClock clock_;
  std::uint64_t runs_ = 0;
  transfer::TransferEngine engine_;
};

}  // namespace weft::bench
