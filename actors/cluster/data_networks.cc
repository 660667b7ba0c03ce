#include "actors/cluster/data_networks.h"

#include <algorithm>

#include "actors/agent/agent.h"
#include "actors/net/network.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kPairAnswerTimeout = std::chrono::seconds(3);

}  // namespace

/// Machine of a run: agents of one address share it, and this process if it has that address, too.
struct DataNetworks::Machine {
  HostNetworks networks;
  ProcessRef agent;  ///< id 0 if only this process is there
  std::vector<std::string> hosts;
  bool has_driver = false;
};

std::vector<DataNetworks::Machine> DataNetworks::machines_of(const std::set<std::string>& hosts,
                                                             const ClusterStatus& status) const {
  std::vector<Machine> machines;
  const auto add = [&](const std::string& address, const std::string& interface) -> Machine& {
    for (Machine& machine : machines)
      if (machine.networks.address == address && machine.networks.interface == interface)
        return machine;
    return machines.emplace_back(Machine{{address, address, interface, {}}, {}, {}, false});
  };
  for (const HostStatus& host : status.hosts) {
    if (!hosts.contains(host.offer.name)) continue;
    const auto interface = chosen_.find(host.offer.name);
    Machine& machine =
        add(host.agent.address.host, interface == chosen_.end() ? "" : interface->second);
    machine.hosts.push_back(host.offer.name);
    machine.agent = host.agent;
  }
  // The head may have been reached by loopback, so this uses the route to the hosts.
  std::string own = "127.0.0.1";
  for (const Machine& machine : machines)
    if (!is_loopback_address(machine.networks.address))
      own = local_address_towards(machine.agent.address);
  const auto here = std::ranges::find_if(
      machines, [&](const Machine& machine) { return machine.networks.address == own; });
  (here == machines.end() ? add(own, "") : *here).has_driver = true;
  return machines;
}

DataInterfaces DataNetworks::interfaces_of(const std::set<std::string>& hosts,
                                           const ClusterStatus& status) {
  std::vector<Machine> machines = machines_of(hosts, status);
  std::vector<std::pair<Machine*, Future<std::vector<InterfaceAddress>>>> asked;
  for (Machine& machine : machines) {
    // Loopback needs no query.
    if (is_loopback_address(machine.networks.address)) continue;
    if (machine.has_driver) machine.networks.addresses = addresses_for_tensors();
    else
      asked.emplace_back(&machine, system_.named<Agent>(machine.agent, "agent")
                                       .within(kPairAnswerTimeout)
                                       .call<&Agent::networks>());
  }
  for (auto& [machine, answer] : asked) {
    try {
      machine->networks.addresses = answer.get();
    } catch (const Error&) {
      // The agent's end is reported elsewhere.
    }
  }
  std::vector<HostNetworks> networks;
  for (const Machine& machine : machines) networks.push_back(machine.networks);
  const std::vector<NetworkTrial> trials = required_trials(networks);
  try_connections(machines, trials);
  std::set<NetworkTrial> succeeded;
  for (const NetworkTrial& trial : trials)
    if (const auto known = tried_.find(Pair(trial.from_address, trial.to_address));
        known != tried_.end() && known->second)
      succeeded.insert(trial);
  const std::vector<std::string> interfaces = choose_networks(networks, succeeded);
  DataInterfaces found;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    for (const std::string& host : machines[i].hosts) found.by_host[host] = interfaces[i];
    if (machines[i].has_driver) found.driver = interfaces[i];
  }
  return found;
}

void DataNetworks::try_connections(const std::vector<Machine>& machines,
                                   const std::vector<NetworkTrial>& trials) {
  std::map<std::size_t, std::vector<NetworkTrial>> by_sender;
  for (const NetworkTrial& trial : trials) {
    const bool fresh = !tried_.contains(Pair(trial.from_address, trial.to_address));
    // A machine with this process alone has no agent that could try connections.
    if (fresh && machines[trial.from].agent.id.value() != 0 &&
        machines[trial.to].agent.id.value() != 0)
      by_sender[trial.from].push_back(trial);
  }
  if (by_sender.empty()) return;
  const auto agent = [&](std::size_t machine) {
    return system_.named<Agent>(machines[machine].agent, "agent").within(kPairAnswerTimeout);
  };
  try {
    std::map<std::string, std::uint16_t> ports;
    for (const auto& [from, some] : by_sender)
      for (const NetworkTrial& trial : some)
        if (!ports.contains(trial.to_address))
          ports[trial.to_address] =
              agent(trial.to).call<&Agent::open_trial>(trial.to_address).get();
    std::vector<std::pair<const std::vector<NetworkTrial>*, Future<std::vector<std::uint8_t>>>>
        answers;
    for (const auto& [from, some] : by_sender) {
      std::vector<ConnectionProbe> connections;
      for (const NetworkTrial& trial : some)
        connections.push_back({trial.from_address, {trial.to_address, ports.at(trial.to_address)}});
      answers.emplace_back(&some, agent(from).call<&Agent::try_connections>(connections));
    }
    for (auto& [some, answer] : answers) {
      const std::vector<std::uint8_t> reached = answer.get();
      for (std::size_t i = 0; i < some->size() && i < reached.size(); ++i)
        tried_[Pair((*some)[i].from_address, (*some)[i].to_address)] = reached[i] != 0;
    }
  } catch (const Error&) {
    // Pairs that were not tried are not used, and are tried next time.
  }
}

}  // namespace weft::actors
