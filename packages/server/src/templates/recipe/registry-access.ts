import { readFile } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'
import type { PublicDialer } from '@dormouse/egress'
import type { ImageNetwork, ImageSource } from '@dormouse/engine'
import type { Caller } from '../../access/caller.ts'

const HOST_REGISTRIES_CONF = '/etc/containers/registries.conf'

const HTTPS_PORT = 443
/** skopeo tries both for a registry without TLS. */
const USUAL_PORTS = [HTTPS_PORT, 80]

export interface RegistryAccessOptions {
  readonly dialer: Pick<PublicDialer, 'dial' | 'dialNamed' | 'problemOf'>
  /** Default: that of the host. */
  readonly registriesConf?: string | undefined
}

/**
 * What keys may pull from. The server pulls with the host's network: a key without `admin` must not reach services of
 * the host or of its network that way, unless the operator lists them.
 */
export class RegistryAccess {
  readonly #options: RegistryAccessOptions

  constructor(options: RegistryAccessOptions) {
    this.#options = options
  }

  get registriesConf(): string | undefined {
    return this.#options.registriesConf
  }

  /** Throws `scope_missing`, `invalid_argument`. */
  async require({ transport, registry }: ImageSource, caller: Caller): Promise<void> {
    if (caller.isAdmin) return
    if (transport !== 'docker' || registry === undefined)
      throw new DormouseError(
        'scope_missing',
        'Only a key with the scope `admin` can import an image from the host.',
        { hint: 'Upload the archive, or push the image to a registry.' },
      )
    const { host, port } = splitPort(registry)
    if ((await this.#listed()).some((listed) => covers(listed, { host, port: port ?? HTTPS_PORT }))) return
    if ((await this.#options.dialer.problemOf(host)) === undefined) return
    throw new DormouseError('invalid_argument', `The registry ${registry} is not on the public internet.`, {
      hint: 'The operator can list it in registries.conf; see the setting `images.registriesConf`.',
      details: { field: 'image', value: registry },
    })
  }

  /**
   * The network of a pull: registries can redirect it, so every connection is judged. Undefined for administrators, who
   * may reach all that the host reaches.
   */
  async networkFor(caller: Caller): Promise<ImageNetwork | undefined> {
    if (caller.isAdmin) return undefined
    const { dialer } = this.#options
    const listed = await this.#listed()
    return {
      dial: (target, signal) =>
        listed.some((one) => covers(one, target))
          ? dialer.dialNamed(target, signal)
          : dialer.dial(target, signal),
      loopbackPorts: listed.flatMap(({ host, port }) => (isLoopback(host) ? (port ?? USUAL_PORTS) : [])),
    }
  }

  /** The registries and mirrors that the operator named, as `location` or `prefix`. */
  async #listed(): Promise<Listed[]> {
    // A host without the file lists none.
    const text = await readFile(this.#options.registriesConf ?? HOST_REGISTRIES_CONF, 'utf8').catch(() => '')
    const names = [...text.matchAll(/^\s*(?:location|prefix)\s*=\s*["']([^"'/]+)(?:\/[^"']*)?["']/gm)]
    return names.map(([, name = '']) => splitPort(name))
  }
}

interface Listed {
  readonly host: string
  /** Undefined: the usual ones. */
  readonly port: number | undefined
}

function splitPort(registry: string): Listed {
  const [, host = registry, port] = /^(.+?)(?::(\d+))?$/.exec(registry) ?? []
  return {
    host: host.toLowerCase().replace(/^\[|\]$/g, ''),
    port: port === undefined ? undefined : Number(port),
  }
}

function covers(listed: Listed, target: { readonly host: string; readonly port: number }): boolean {
  const ports = listed.port === undefined ? USUAL_PORTS : [listed.port]
  const isSameHost =
    listed.host === target.host.toLowerCase() || (isLoopback(listed.host) && isLoopback(target.host))
  return isSameHost && ports.includes(target.port)
}

function isLoopback(host: string): boolean {
  return /^(?:localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host)
}
