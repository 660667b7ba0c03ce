#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace weft::apps {

/// Network namespaces with shaped links, created by the tool weft-hosts. They are removed with this
/// object, or when this process exits for any reason. Used by one thread at a time.
class TestHosts final {
 public:
  /// Returns the reason why this machine cannot have test hosts; empty if it can. Throws
  /// Error(kNotFound) if the tool does not exist.
  static std::string unsupported_because(const std::filesystem::path& tool);

  struct Options {
    std::filesystem::path tool;
    std::string session;
    int hosts = 0;
    int nics = 1;
  };
  /// Creates the hosts. Throws Error(kUnavailable) with the output of the tool.
  explicit TestHosts(Options options);
  TestHosts(const TestHosts&) = delete;
  TestHosts& operator=(const TestHosts&) = delete;

  const std::string& address(int host, int nic = 0) const { return addresses_.at(host).at(nic); }
  /// Address of this machine on the network of the hosts.
  const std::string& outer_address() const { return outer_; }
  /// Returns the command line that runs `command` on a host.
  std::vector<std::string> command_on(int host, const std::vector<std::string>& command) const;
  /// Limits the rate of a host's interface in both directions.
  void limit(int host, int nic, std::uint64_t bits_per_second) const;
  /// Disconnects a host from the network; reconnect_host() reconnects it.
  void disconnect_host(int host) const;
  void reconnect_host(int host) const;
  /// Returns the bytes, headers included, that a host's interface has received since it was
  /// created.
  std::uint64_t bytes_received(int host, int nic) const;

 private:
  /// Process of the tool that keeps the hosts until its stdin closes. Waits for its exit when
  /// destroyed.
  struct Keeper {
    Keeper() = default;
    ~Keeper();
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;

    pid_t pid = -1;
    int stdin_fd = -1;
  };

  std::string run_tool(const std::string& arguments) const;

  const Options options_;
  Keeper keeper_;
  std::string outer_;
  std::vector<std::vector<std::string>> addresses_;
};

}  // namespace weft::apps
