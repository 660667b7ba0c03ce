#include "actors/link/compatibility.h"

#include <fmt/format.h>

#include "core/base/utf8.h"

namespace weft::actors {

std::string describe(const PeerDescription& side) {
  return printable_line(fmt::format("{} ({}, pid {})", side.process.name,
                                    side.binary_name.empty() ? "weft" : side.binary_name,
                                    side.pid));
}

std::optional<Reject> find_incompatibility(const PeerDescription& self,
                                           const PeerDescription& other) {
  if (self.process.id == other.process.id)
    return Reject{ErrorCode::kInvalidArgument,
                  fmt::format("{} connected to its own address", describe(self)),
                  "give the address of another process", false, self.process.id};
  if (self.run != 0 && self.run == other.run && self.binary_hash != other.binary_hash)
    return Reject{ErrorCode::kIncompatible,
                  fmt::format("{} and {} are of one run, but run different executables: SHA-256 "
                              "{}... and {}...",
                              describe(self), describe(other), self.binary_hash.substr(0, 12),
                              other.binary_hash.substr(0, 12)),
                  "copy the same executable to both hosts and start again", false, self.process.id};
  return std::nullopt;
}

Error to_error(const Reject& reject) {
  return Error(reject.authenticated ? reject.code : ErrorCode::kUnavailable,
               printable_line(fmt::format("connection refused: {}{}{}", reject.text,
                                          reject.hint.empty() ? "" : "; ", reject.hint)));
}

}  // namespace weft::actors
