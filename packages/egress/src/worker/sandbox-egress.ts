import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { TokenBucket } from '@dormouse/async'
import type { Destination } from '../dial/dialer.ts'
import type { CounterCells } from '../gate/counter-cells.ts'
import { Gate, type GateDescriptors, type GateOptions } from '../gate/gate.ts'
import { GateConnections } from '../gate/gate-connections.ts'
import { type GateContext, ReachesHostError } from '../gate/gate-context.ts'
import type { OpenEnd, ParkedEnd } from '../gate/parked-ends.ts'
import { reset } from '../gate/reset.ts'
import { FAILED_LOOKUPS_BURST, FAILED_LOOKUPS_PER_SECOND, QUESTIONS_MAX_PER_SECOND } from '../limits.ts'
import { Pins } from '../names/pins.ts'
import { Resolver } from '../names/resolver.ts'
import { isSynthetic, SyntheticAddresses } from '../names/synthetic-addresses.ts'
import { CompiledPolicy } from '../policy/compiled-policy.ts'
import type { EgressPolicy } from '../policy/egress-policy.ts'
import type { Tenant } from './connection-slots.ts'
import type { HostEgress } from './host-egress.ts'

const NOTHING: EgressPolicy = { mode: 'none', allow: [], secrets: [] }
/** How many addresses of a name are tried before it counts as unreachable. */
const ADDRESSES_TRIED_MAX = 4

/**
 * The egress of one sandbox, in the worker. Outlives its gates: a sandbox that wakes keeps the addresses that it
 * learned.
 */
export class SandboxEgress {
  readonly #host: HostEgress
  readonly #context: GateContext
  readonly #resolver: Resolver
  readonly #questions = new TokenBucket({
    perSecond: QUESTIONS_MAX_PER_SECOND,
    burst: QUESTIONS_MAX_PER_SECOND,
  })
  readonly #failedLookups = new TokenBucket({
    perSecond: FAILED_LOOKUPS_PER_SECOND,
    burst: FAILED_LOOKUPS_BURST,
  })
  readonly #connections: GateConnections
  #policy: CompiledPolicy
  #gate: Gate | undefined
  readonly #sandboxId: string
  #tenant: Tenant | undefined
  #hasDataAsleep = false

  constructor(sandboxId: string, counters: CounterCells, host: HostEgress) {
    this.#sandboxId = sandboxId
    this.#host = host
    this.#policy = new CompiledPolicy(NOTHING, host.hostNetwork)
    this.#connections = new GateConnections(host.endAddon, host.keptBudget)
    const policy = () => this.#policy
    const pins = new Pins()
    const synthetic = new SyntheticAddresses()
    const deny = (
      protocol: 'tcp' | 'dns',
      denial: Parameters<GateContext['onDenial']>[0] | { name: string; reason: string },
    ) => {
      counters.add('denied', 1)
      host.denials.add({ sandboxId, protocol, ...denial })
    }
    this.#resolver = new Resolver({
      sources: host.sources,
      policy,
      pins,
      synthetic,
      onQuery: () => counters.add('names', 1),
      onDenial: (denial) => deny('dns', denial),
      onFailure: (failure) => {
        if (this.#failedLookups.take() === 0) host.onFailedLookup({ sandboxId, ...failure })
      },
    })
    this.#context = {
      policy,
      pins,
      synthetic,
      counters,
      isFenced: host.isFenced,
      interceptor: host.interceptor,
      relay: host.relay,
      dial: (to, signal) => this.#dial(to, signal),
      connectByName: (name, port) => this.#connectByName(name, port),
      onDenial: (denial) => deny('tcp', denial),
      onDataAsleep: () => {
        if (!this.#hasDataAsleep) host.onDataAsleep(sandboxId)
        this.#hasDataAsleep = true
      },
      onLost: (to) => host.onLost(sandboxId, to),
    }
  }

  /** Replaces an earlier gate. Owns the descriptors from here on, also when it rejects. */
  async attach(
    descriptors: GateDescriptors,
    policy: EgressPolicy,
    destinationOf?: GateOptions['destinationOf'],
  ): Promise<void> {
    this.#tenant ??= { sandboxId: this.#sandboxId, owner: policy.owner ?? this.#sandboxId }
    const tenant = this.#tenant
    const { connections: slots } = this.#host
    const opening = Gate.open(descriptors, {
      context: this.#context,
      connections: this.#connections,
      answer: async (packet, transport) =>
        this.#questions.take() === 0 ? this.#resolver.answer(packet, transport) : undefined,
      takeSlot: (evict) => slots.take(tenant, evict),
      ...(destinationOf === undefined ? {} : { destinationOf }),
    })
    // The gate may accept connections before it reports to be open; they must meet the new policy.
    this.change(policy)
    const gate = await opening
    const earlier = this.#gate
    this.#gate = gate
    await earlier?.close()
  }

  /** Post: no connection is left that the new policy forbids. */
  change(policy: EgressPolicy): void {
    const haveSecretsChanged = !isDeepStrictEqual(policy.secrets, this.#policy.secrets)
    this.#policy = new CompiledPolicy(policy, this.#host.hostNetwork)
    this.#connections.recheck(this.#policy, haveSecretsChanged)
  }

  /** Ends the connections, except those that wait for the next burrow. */
  async detach(): Promise<void> {
    const gate = this.#gate
    this.#gate = undefined
    await gate?.close()
    if (!this.#connections.areParked) this.change(NOTHING)
  }

  /** See `GateKeeper` of the engine. */
  async park(): Promise<readonly ParkedEnd[]> {
    // Connections that the kernel has accepted for this thread arrive first.
    await nextTurn()
    this.#hasDataAsleep = false
    return this.#connections.park()
  }

  listOpen(): readonly string[] {
    return this.#connections.listOpen()
  }

  unpark(): void {
    this.#connections.unpark()
  }

  /** Connections continue in the burrow of the current gate. Those that were parked and have no end there are over. */
  resume(ends: readonly OpenEnd[]): void {
    this.#connections.resume(ends)
  }

  /** Ends the connections that wait for the next burrow. */
  endParked(): void {
    this.#connections.endParked()
  }

  async forget(): Promise<void> {
    await this.detach()
    this.#connections.endAll()
  }

  async #dial(to: Destination, signal: AbortSignal): Promise<Socket> {
    if (this.#host.isFenced()) throw new Error('this host has lost its lease')
    const { socket, isDirect } = await this.#host.dialer.dial(to, signal)
    // When the kernel connects to this host, both ends have the same address. That is more reliable than any list of
    // interfaces.
    const reachesHost = isDirect && socket.localAddress === socket.remoteAddress
    if (!reachesHost || this.#isRegistry(to)) return socket
    reset(socket)
    throw new ReachesHostError()
  }

  #isRegistry({ address, names, port }: Destination): boolean {
    const hosts = address === undefined ? names : [address, ...names]
    return hosts.some((host) => this.#host.hostNetwork.isRegistry(host, port))
  }

  async #connectByName(name: string, port: number): Promise<Socket> {
    const isAllowed = (address: string) =>
      this.#policy.ask(name, port, undefined).allowed &&
      (isSynthetic(address) || this.#policy.ask(name, port, address).allowed)
    const addresses = await this.#resolver.addressesOf(name)
    let failure = new Error('no address that the policy allows')
    for (const address of addresses.slice(0, ADDRESSES_TRIED_MAX)) {
      if (!isAllowed(address)) continue
      const to = { address: isSynthetic(address) ? undefined : address, port, names: [name] }
      const socket = await this.#dial(to, NEVER).catch((error: Error) => {
        failure = error
      })
      if (socket === undefined) continue
      // The policy may have changed while dialing.
      if (isAllowed(address)) return socket
      reset(socket)
    }
    throw failure
  }
}

const NEVER = new AbortController().signal
