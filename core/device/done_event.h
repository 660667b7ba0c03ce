#pragma once

#include "core/device/device.h"

namespace weft {

/// Event of a stream whose calls return when their work is done.
class DoneEvent final : public Event {
 public:
  bool done() const override { return true; }
  void synchronize() const override {}
};

}  // namespace weft
