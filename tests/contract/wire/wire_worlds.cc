#include "tests/contract/wire/wire_worlds.h"

#include "tests/support/cluster_token.h"
#include "transfer/wire/loopback_hub.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::test {
namespace {

class LoopbackWorld final : public WireWorld {
 public:
  explicit LoopbackWorld(transfer::LoopbackOptions options) : hub_(options) {}
  std::unique_ptr<transfer::Wire> make(transfer::DeviceId device) override {
    return hub_.attach(device);
  }
  transfer::HostId host_of(transfer::DeviceId) const override { return transfer::HostId(0); }

 private:
  transfer::LoopbackHub hub_;
};

class UcxWorld final : public WireWorld {
 public:
  explicit UcxWorld(bool one_host, std::string interfaces = "lo") : one_host_(one_host) {
    options_.secret = cluster_token();
    options_.interfaces = std::move(interfaces);  // tests open no port to the network
  }
  std::unique_ptr<transfer::Wire> make(transfer::DeviceId device) override {
    return transfer::make_ucx_wire(device, host_of(device), options_);
  }
  transfer::HostId host_of(transfer::DeviceId device) const override {
    return transfer::HostId(one_host_ ? 0 : device.value());
  }

 private:
  const bool one_host_;
  transfer::UcxOptions options_;
};

}  // namespace

std::vector<WireKind> wire_kinds() {
  transfer::LoopbackOptions unkind;
  unkind.shuffle_seed = 20261121;
  return {
      {"Loopback", [] { return std::make_unique<LoopbackWorld>(transfer::LoopbackOptions{}); }},
      {"ShuffledLoopback", [unkind] { return std::make_unique<LoopbackWorld>(unkind); }},
      {"UcxTcp", [] { return std::make_unique<UcxWorld>(false); }},
      {"UcxTwoRails", [] { return std::make_unique<UcxWorld>(false, "lo,lo"); }},
      {"UcxShm", [] { return std::make_unique<UcxWorld>(true); }},
  };
}

}  // namespace weft::test
