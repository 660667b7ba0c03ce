#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/outcome.h"
#include "transfer/execute/transfer_report.h"

namespace weft::mesh {

/// An event on a device's stream that was waited for.
struct Notice {
  enum class Kind : std::uint8_t {
    kMark,             ///< The compute stream has reached the next mark.
    kUploaded,         ///< A batch was copied to the device; `index` of its block.
    kSquares,          ///< The sums of squares are on the host.
    kCopiedOut,        ///< The source of transfer `index` is on the host.
    kLanded,           ///< The destination of transfer `index` is on the device.
    kCollectiveBegun,  ///< The stream of device collectives has come to transfer `index`,
    kCollectiveDone,   ///< and has done it.
    kSealed,           ///< A stream has ended what it had when the execution failed.
  };
  Kind kind = Kind::kMark;
  std::uint32_t index = 0;
  Outcome<TimePoint> at = TimePoint();
};

/// What other threads tell an execution. Filled on the transfer thread and by event watches,
/// emptied on the owner's.
struct Inbox {
  std::mutex mutex;
  // under_way has become 0
  std::condition_variable idle;
  // by handle; guarded by mutex
  std::vector<std::pair<std::uint32_t, transfer::TransferReport>> reports;
  std::vector<Notice> notices;  // guarded by mutex
  // transfers and events; guarded by mutex
  std::uint64_t under_way = 0;
};

}  // namespace weft::mesh
