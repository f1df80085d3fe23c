import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { BlockList, isIP } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import type { ImageSource } from '@dormouse/engine'
import type { Caller } from '../../access/caller.ts'

export const HOST_REGISTRIES_CONF = '/etc/containers/registries.conf'

/** Addresses that are not on the public internet. */
const INTERNAL = new BlockList()
for (const [address, bits] of [
  ...([
    ['0.0.0.0', 8],
    ['10.0.0.0', 8],
    ['100.64.0.0', 10],
    ['127.0.0.0', 8],
    ['169.254.0.0', 16],
  ] as const),
  ...([
    ['172.16.0.0', 12],
    ['192.0.0.0', 24],
    ['192.168.0.0', 16],
    ['198.18.0.0', 15],
    ['224.0.0.0', 3],
  ] as const),
] as const)
  INTERNAL.addSubnet(address, bits)
for (const [address, bits] of [
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
  ['ff00::', 8],
  ['64:ff9b::', 96],
] as const)
  INTERNAL.addSubnet(address, bits, 'ipv6')

/**
 * Whether a caller may pull from there. The server pulls with the host's network: a key must not reach services of the
 * host or of its network that way, unless the operator lists the registry. Throws `scope_missing`, `invalid_argument`.
 */
export async function requireImageAccess(
  { transport, registry }: ImageSource,
  caller: Caller,
  registriesConf: string | undefined,
): Promise<void> {
  if (caller.isAdmin) return
  if (transport !== 'docker' || registry === undefined)
    throw new DormouseError(
      'scope_missing',
      'Only a key with the scope `admin` can import an image from the host.',
      {
        hint: 'Upload the archive, or push the image to a registry.',
      },
    )
  if (await isListed(registry, registriesConf)) return
  if (!(await isInternal(registry))) return
  throw new DormouseError('invalid_argument', `The registry ${registry} is not on the public internet.`, {
    hint: 'The operator can list it in registries.conf; see the setting `images.registriesConf`.',
    details: { field: 'image', value: registry },
  })
}

/** The operator named the registry, as `location` or `prefix`. */
async function isListed(registry: string, path: string = HOST_REGISTRIES_CONF): Promise<boolean> {
  // A host without the file lists none.
  const text = await readFile(path, 'utf8').catch(() => '')
  const named = [...text.matchAll(/^\s*(?:location|prefix)\s*=\s*["']([^"']+)["']/gm)].map(
    ([, name = '']) => name,
  )
  return named.some((name) => name === registry || name.startsWith(`${registry}/`))
}

async function isInternal(registry: string): Promise<boolean> {
  const host = registry.replace(/:\d+$/, '').replace(/^\[|\]$/g, '')
  const addresses = isIP(host) ? [host] : await resolve(host)
  return addresses.some((address) => {
    const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
    const plain = mapped ?? address
    return INTERNAL.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4')
  })
}

async function resolve(host: string): Promise<string[]> {
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address)
  } catch {
    // skopeo reports a name that does not exist.
    return []
  }
}
