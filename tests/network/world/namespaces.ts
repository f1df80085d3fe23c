import { execFileSync } from 'node:child_process'

const HOST_ADDRESSES = ['11.0.0.2/24', '2a00:d0::2/64', '10.0.0.2/24', 'fd00:10::2/64']
/** The other ends of the host's networks, and where everything else is. */
const INTERNET_ADDRESSES = ['11.0.0.1/24', '2a00:d0::1/64', '10.0.0.1/24', 'fd00:10::1/64']
/** Public ones, and some that no sandbox may reach: all of them answer, so a test of that can fail. */
const OUTSIDE_ADDRESSES = [
  '11.0.0.53/32',
  '11.22.33.44/32',
  '11.22.33.45/32',
  '2a00:22:33::44/128',
  '10.9.8.7/32',
  '172.16.3.3/32',
  '192.168.7.7/32',
  '100.64.0.9/32',
  '169.254.169.254/32',
  '168.63.129.16/32',
  '198.18.5.5/32',
  'fd00:77::7/128',
  'fec0::7/128',
]

export interface Namespaces {
  readonly host: string
  readonly internet: string
  remove(): void
}

/** A host with one cable, and at its other end the internet. Nothing in them can reach anything of this machine. */
export function makeNamespaces(): Namespaces {
  const id = `${process.pid.toString(36)}${Date.now().toString(36).slice(-4)}`
  const host = `dmh-${id}`
  const internet = `dmi-${id}`
  const remove = () => {
    for (const name of [host, internet]) {
      try {
        execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' })
      } catch {
        // It was never made, or is gone already.
      }
    }
  }
  process.once('exit', remove)
  try {
    ip('netns', 'add', host)
    ip('netns', 'add', internet)
    ip('-n', host, 'link', 'add', 'out', 'type', 'veth', 'peer', 'name', 'in', 'netns', internet)
    setUp(host, 'out', HOST_ADDRESSES)
    setUp(internet, 'in', INTERNET_ADDRESSES)
    for (const address of OUTSIDE_ADDRESSES) ip('-n', internet, 'addr', 'add', address, 'dev', 'lo')
    ip('-n', host, 'route', 'add', 'default', 'via', '11.0.0.1')
    ip('-n', host, '-6', 'route', 'add', 'default', 'via', '2a00:d0::1')
  } catch (error) {
    remove()
    throw error
  }
  return {
    host,
    internet,
    remove: () => {
      process.removeListener('exit', remove)
      remove()
    },
  }
}

/** Only the network: all else, mounts and cgroups above all, must stay what the engine expects. */
export function inNamespace(name: string): readonly string[] {
  return ['nsenter', `--net=/run/netns/${name}`, '--']
}

function setUp(name: string, link: string, addresses: readonly string[]): void {
  ip('-n', name, 'link', 'set', 'lo', 'up')
  ip('-n', name, 'link', 'set', link, 'up')
  for (const address of addresses)
    ip('-n', name, 'addr', 'add', address, 'dev', link, ...(address.includes(':') ? ['nodad'] : []))
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
}
