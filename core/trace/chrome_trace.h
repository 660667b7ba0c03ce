#pragma once

#include <filesystem>
#include <iosfwd>
#include <span>

#include "core/trace/trace_event.h"

namespace weft {

/// Writes the devices' events in the Chrome trace format, which ui.perfetto.dev and
/// chrome://tracing open.
///
/// Each device is a process, in the given order, with the threads compute, send and receive (and
/// "send 2", ... for overlapping sends). Time 0 is the first event; each device's clock offset is
/// applied.
void write_chrome_trace(std::ostream& out, std::span<const DeviceTrace> devices);

/// Writes the same to a file, replacing it. Throws Error(kUnavailable) if it cannot be written.
void write_chrome_trace(const std::filesystem::path& path, std::span<const DeviceTrace> devices);

}  // namespace weft
