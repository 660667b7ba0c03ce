#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace weft {

/// Bytes that this machine could give to a process now (MemAvailable), or what the process's
/// control group is still allowed, whichever is less; nothing where the system does not tell.
/// `root` is "/", but for tests.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace weft
