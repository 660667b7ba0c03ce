#pragma once

#include <cstdint>
#include <filesystem>

#include "actors/call/task.h"
#include "apps/selection/graph_messages.h"
#include "mesh/exchange/exchange.h"

namespace weft::apps {

/// Worker's part of the distribution of a graph's input: hosts that lack the input receive the rows
/// that they need from a rank that has all (the holder). Runs before the session opens its folders,
/// and therefore borrows the session's port only. Actor's thread only.
class InputTransfer final {
 public:
  explicit InputTransfer(mesh::DataPlaneEndpoint& port) : port_(port) {}

  /// Reports the input on this host. Call first after each connect().
  InputStatus inspect(const GraphInput& input);
  /// Sends rows from the holder to the ranks that lack them, checked by digests. Called on all
  /// ranks. The rows are valid until the next inspect(). Returns the received bytes.
  actors::task<std::uint64_t> fetch(FetchRequest request);
  /// Returns the folder of the received files, or an empty path if this host has the input.
  std::filesystem::path copies(const std::filesystem::path& scratch) const;
  void remove_copies(const std::filesystem::path& scratch) const;

 private:
  std::filesystem::path folder(const std::filesystem::path& scratch) const;
  /// Sends one rank its rows of all files, then their digest.
  actors::task<> send_rows(const FetchRequest& request, std::uint32_t rank,
                           mesh::ActorExchange& exchange) const;

  mesh::DataPlaneEndpoint& port_;
  bool has_copies_ = false;  ///< True if the host lacks the input and has received rows.
};

}  // namespace weft::apps
