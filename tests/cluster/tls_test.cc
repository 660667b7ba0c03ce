// Tests a cluster on an address of this machine that other machines could reach.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <optional>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns an IPv4 address of this machine other than loopback's; empty if there is none.
std::optional<std::string> outer_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  std::optional<std::string> found;
  for (const ifaddrs* each = all; each != nullptr && !found; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const auto& address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
    char text[INET_ADDRSTRLEN];
    ::inet_ntop(AF_INET, &address, text, sizeof text);
    if (ntohl(address.s_addr) >> 24 != 127) found = text;
  }
  ::freeifaddrs(all);
  return found;
}

/// Head on an address that other machines could reach.
class TlsCluster : public ::testing::Test {
 protected:
  using Process = RealProcesses::Process;

  void SetUp() override {
    const auto outer = outer_address();
    if (!outer) GTEST_SKIP() << "this machine has no address but loopback's";
    outer_ = *outer;
  }
  Process& start_head(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"head", "--listen", outer_ + ":0", "--state", "state"};
    words.insert(words.end(), more.begin(), more.end());
    Process& head = processes_.start("weft", words);
    address_ = head.word_after("Weft's head listens on ");
    return head;
  }
  Process& start_again() {
    Process& head = processes_.start("weft", {"head", "--listen", address_, "--state", "state"});
    head.word_after("Weft's head listens on ");
    return head;
  }
  Process& join(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"join", address_, "--name", name};
    words.insert(words.end(), more.begin(), more.end());
    return processes_.start("weft", words);
  }
  Process& command(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {name, "--head", address_};
    words.insert(words.end(), more.begin(), more.end());
    Process& process = processes_.run("weft", words);
    process.wait();
    return process;
  }
  Process& start_run(int seconds) {
    processes_.write("run.yaml", fmt::format("name: r\napp: cluster_app\n"
                                             "cluster: {{launcher: manual, hosts: [{{name: a}}]}}\n"
                                             "work: {{actors: 1, seconds: {}}}\n",
                                             seconds));
    return processes_.start("weft", {"run", "run.yaml", "--head", address_});
  }
  std::filesystem::path state(const std::string& file) const {
    return processes_.directory() / "state" / file;
  }

  RealProcesses processes_{"tls"};
  std::string outer_, address_;
};

mode_t rights_of(const std::filesystem::path& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 ? about.st_mode & 07777 : 0;
}

TEST_F(TlsCluster, TheJoinCommandCarriesTheCertificateAndRunsGoOverTls) {
  Process& head = start_head();
  EXPECT_EQ(rights_of(state("key.pem")), 0600u);
  const std::string digest = head.word_after(" --cert ");
  EXPECT_EQ(digest.size(), 7u + 64u) << digest;
  // joins as another machine would, with a copy of the token
  std::filesystem::copy_file(state("token"), processes_.directory() / "token");
  join("a", {"--cert", digest, "--token-file", "token"}).word_after("has joined cluster");
  // on this machine, no option is needed
  join("b").word_after("has joined cluster");
  EXPECT_EQ(command("status").wait(), 0);
  Process& run = start_run(0);
  EXPECT_EQ(run.wait(), 0) << run.text();

  Process& wrong = command("status", {"--cert", "sha256:" + std::string(64, '0')});
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_THAT(wrong.text(), AllOf(HasSubstr("its certificate is " + digest),
                                  HasSubstr("a machine impersonates it")));
  Process& odd = command("status", {"--cert", "sha256:12"});
  EXPECT_EQ(odd.wait(), 2);
  EXPECT_THAT(odd.text(), HasSubstr("expected sha256: and 64 hexadecimal digits"));

  EXPECT_EQ(command("stop").wait(), 0);
  EXPECT_EQ(head.wait(), 0);
  EXPECT_EQ(start_again().word_after(" --cert "), digest) << "another start, the same certificate";
}

TEST_F(TlsCluster, APlainTextPeerIsRefusedAndRecordedAsAnEvent) {
  start_head();
  Process& plain = join("a", {"--insecure"});
  EXPECT_EQ(plain.wait(), 1);
  EXPECT_THAT(plain.text(),
              AllOf(HasSubstr("warning: --insecure: connections between machines are encrypted "
                              "with keys of the token"),
                    HasSubstr("head (weft, pid "), HasSubstr("requires TLS beyond loopback"),
                    HasSubstr("start it without --insecure")));
  EXPECT_TRUE(eventually([&] {
    return command("status").text().find("refused a connection from " + outer_) !=
           std::string::npos;
  }));
}

TEST_F(TlsCluster, AnInsecureClusterWarnsAtEveryStartAndRefusesTls) {
  Process& head = start_head({"--insecure"});
  EXPECT_THAT(head.text(), AllOf(HasSubstr("warning: --insecure: connections between machines are "
                                           "encrypted with keys of the token"),
                                 Not(HasSubstr("--cert"))));
  EXPECT_FALSE(std::filesystem::exists(state("key.pem")));
  Process& agent = join("a", {"--insecure"});
  agent.word_after("has joined cluster");
  EXPECT_THAT(agent.text(), HasSubstr("warning: --insecure"));
  Process& secure = command("status");
  EXPECT_EQ(secure.wait(), 1);
  EXPECT_THAT(secure.text(), AllOf(HasSubstr("the peer does not accept TLS"),
                                   HasSubstr("use --insecure here, too")));
  EXPECT_EQ(command("status", {"--insecure"}).wait(), 0);
  processes_.write("run.yaml",
                   "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: a}]}\n"
                   "work: {actors: 1, seconds: 0}\n");
  Process& run = processes_.run("weft", {"run", "run.yaml", "--head", address_, "--insecure"});
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), HasSubstr("warning: --insecure"));
  // The new token is not sent over a connection that others could read.
  Process& rotate = processes_.run("weft", {"token", "rotate", "--head", address_, "--insecure"});
  EXPECT_EQ(rotate.wait(), 0) << rotate.text();
  EXPECT_THAT(rotate.text(), HasSubstr("a is connected without TLS and did not receive the token"));
}

TEST_F(TlsCluster, ANewTokenLetsARunGoOnAndShutsStrangersOut) {
  Process& head = start_head();
  Process& agent = join("a", {"--devices", "2"});
  agent.word_after("has joined cluster");
  std::filesystem::copy_file(state("token"), processes_.directory() / "old");
  Process& run = start_run(3);
  run.word_after("working");
  const std::string before = read_file(state("token"));
  Process& rotate = processes_.run("weft", {"token", "rotate", "--head", address_});
  EXPECT_EQ(rotate.wait(), 0) << rotate.text();
  EXPECT_THAT(rotate.text(), HasSubstr("has a new token"));
  EXPECT_NE(read_file(state("token")), before);
  EXPECT_EQ(rights_of(state("token")), 0600u);
  Process& stranger = command("status", {"--token-file", "old"});
  EXPECT_EQ(stranger.wait(), 1);
  EXPECT_THAT(stranger.text(), HasSubstr("uses a token that was replaced"));
  EXPECT_EQ(command("status").wait(), 0);
  // The head dies, its token is replaced while it is down, and it starts again.
  ::kill(head.pid, SIGKILL);
  head.wait();
  Process& offline = processes_.run("weft", {"token", "rotate", "--state", "state"});
  EXPECT_EQ(offline.wait(), 0) << offline.text();
  Process& again = start_again();
  again.word_after("host a reconnected after");
  EXPECT_EQ(run.wait(), 0) << run.text();
  Process& busy = processes_.run("weft", {"token", "rotate", "--state", "state"});
  EXPECT_EQ(busy.wait(), 1);
  EXPECT_THAT(busy.text(), HasSubstr("weft token rotate --head"));
  // New device processes have the new token.
  Process& next = processes_.start("weft", {"run", "run.yaml", "--head", address_, "--out", "o"});
  next.word_after("working");
  EXPECT_EQ(next.wait(), 0) << next.text();
}

}  // namespace
}  // namespace weft::test
