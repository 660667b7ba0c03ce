#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace weft::apps {

/// Hosts made by the tool weft-hosts: network namespaces with shaped links. They end with this
/// object, and with this process whatever ends it. One thread at a time.
class TestHosts final {
 public:
  /// Why this machine cannot have any; empty: it can. Throws Error(kNotFound) when the tool is
  /// missing.
  static std::string refusal(const std::filesystem::path& tool);

  struct Options {
    std::filesystem::path tool;
    std::string session;
    int hosts = 0;
    int nics = 1;
  };
  /// Throws Error(kUnavailable) with what the tool said.
  explicit TestHosts(Options options);
  ~TestHosts();
  TestHosts(const TestHosts&) = delete;
  TestHosts& operator=(const TestHosts&) = delete;

  /// The IP address of a host's interface.
  const std::string& address(int host, int nic = 0) const { return addresses_.at(host).at(nic); }
  /// This machine's address towards the hosts.
  const std::string& outer_address() const { return outer_; }
  /// `command` as it runs on a host.
  std::vector<std::string> command_on(int host, const std::vector<std::string>& command) const;
  /// Shapes an interface of a host, both ways.
  void limit(int host, int nic, std::uint64_t bits_per_second) const;
  /// Pulls a host's cables out, and puts them back.
  void cut(int host) const;
  void mend(int host) const;
  /// What an interface of a host has received since it was made, headers included.
  std::uint64_t bytes_received(int host, int nic) const;

 private:
  std::string run_tool(const std::string& arguments) const;

  const Options options_;
  pid_t keeper_ = 0;
  int keeper_stdin_ = -1;
  std::string outer_;
  std::vector<std::vector<std::string>> addresses_;
};

}  // namespace weft::apps
