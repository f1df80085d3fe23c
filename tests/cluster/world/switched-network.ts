import { execFileSync } from 'node:child_process'
import { inNamespace } from '../../network/world/namespaces.ts'

/** Public, so that sandboxes may reach them; nothing in these namespaces has a way out. */
const PREFIX = '11.77.0'
/** Frames for this address reach no machine. */
const NOWHERE = '02:00:00:00:00:01'
const SLOW = ['rate', '2mbit', 'burst', '16kb', 'latency', '600ms']

/** A machine of the network: a network namespace with one cable to the switch. */
export interface Member {
  readonly name: string
  readonly address: string
  readonly launcher: readonly string[]
}

/** Network namespaces around a switch, whose links can be cut and slowed down. A cut link is silent: nothing fails. */
export class SwitchedNetwork {
  readonly #id = `${process.pid.toString(36)}${Date.now().toString(36).slice(-4)}`
  readonly #switch = `dms-${this.#id}`
  readonly #members: Member[] = []
  readonly #remove = () => {
    for (const name of [this.#switch, ...this.#members.map((member) => this.#namespace(member))]) {
      try {
        ip('netns', 'del', name)
      } catch {
        // It was never made, or is gone already.
      }
    }
  }

  constructor() {
    process.once('exit', this.#remove)
    ip('netns', 'add', this.#switch)
    ip('-n', this.#switch, 'link', 'add', 'hub', 'type', 'bridge')
    ip('-n', this.#switch, 'link', 'set', 'hub', 'up')
  }

  add(name: string): Member {
    const number = this.#members.length + 1
    const namespace = `dm${number}-${this.#id}`
    const member = { name, address: `${PREFIX}.${number}`, launcher: inNamespace(namespace) }
    this.#members.push(member)
    ip('netns', 'add', namespace)
    ip(
      ...['-n', this.#switch, 'link', 'add', port(member), 'type', 'veth'],
      ...['peer', 'name', 'out', 'netns', namespace],
    )
    ip('-n', this.#switch, 'link', 'set', port(member), 'master', 'hub', 'up')
    ip('-n', namespace, 'link', 'set', 'lo', 'up')
    ip('-n', namespace, 'link', 'set', 'out', 'up')
    ip('-n', namespace, 'addr', 'add', `${member.address}/24`, 'dev', 'out')
    return member
  }

  /** Nothing reaches the member, and nothing of it reaches others. */
  cut(member: Member): void {
    ip('-n', this.#switch, 'link', 'set', port(member), 'nomaster')
  }

  /** What `from` sends to `to` is lost. The other direction works. */
  cutOneWay(from: Member, to: Member): void {
    ip(
      ...['-n', this.#namespace(from), 'neigh', 'replace', to.address],
      ...['lladdr', NOWHERE, 'dev', 'out', 'nud', 'permanent'],
    )
  }

  /** Both directions take 2 Mbit/s, with a queue of up to 0.6 s. */
  slow(member: Member): void {
    tc('-n', this.#namespace(member), 'qdisc', 'replace', 'dev', 'out', 'root', 'tbf', ...SLOW)
    tc('-n', this.#switch, 'qdisc', 'replace', 'dev', port(member), 'root', 'tbf', ...SLOW)
  }

  heal(): void {
    for (const member of this.#members) {
      ip('-n', this.#switch, 'link', 'set', port(member), 'master', 'hub')
      ip('-n', this.#namespace(member), 'neigh', 'flush', 'all', 'nud', 'permanent')
      for (const [where, link] of [
        [this.#namespace(member), 'out'],
        [this.#switch, port(member)],
      ] as const)
        if (tc('-n', where, 'qdisc', 'show', 'dev', link).includes('tbf'))
          tc('-n', where, 'qdisc', 'del', 'dev', link, 'root')
    }
  }

  remove(): void {
    process.removeListener('exit', this.#remove)
    this.#remove()
  }

  #namespace(member: Member): string {
    return `dm${this.#members.indexOf(member) + 1}-${this.#id}`
  }
}

function port({ address }: Member): string {
  return `port${address.split('.').at(-1)}`
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
}

function tc(...args: string[]): string {
  return execFileSync('tc', args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
}
