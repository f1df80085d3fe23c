import { DormouseError } from '@dormouse/contracts'

/** Where an image comes from, in the words of skopeo. */
export interface ImageSource {
  /** For example `docker://docker.io/library/node:24` or `oci-archive:/srv/web.tar`. */
  readonly transport: 'docker' | 'oci' | 'oci-archive' | 'docker-archive'
  /** What skopeo gets. */
  readonly reference: string
  /** Of `docker` only: the registry, with its port. */
  readonly registry?: string
}

const DEFAULT_REGISTRY = 'docker.io'
const REFERENCE =
  /^(?:(?<registry>[A-Za-z0-9.-]+(?::\d+)?|\[[0-9a-f:]+\](?::\d+)?)\/)?(?<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?<tag>[\w][\w.-]{0,127}))?(?:@(?<digest>sha256:[0-9a-f]{64}))?$/
const ON_DISK = /^(?<transport>oci|oci-archive|docker-archive):(?<path>\/[^:\n]*)(?::(?<tag>[^:/\n]+))?$/

/** Reads `node:24`, `docker://registry/name@sha256:…`, or `oci:/directory`. Throws `invalid_argument`. */
export function parseImageSource(text: string): ImageSource {
  const onDisk = ON_DISK.exec(text)?.groups
  if (onDisk !== undefined) return { transport: onDisk['transport'] as 'oci', reference: text }
  const groups = REFERENCE.exec(text.replace(/^docker:\/\//, ''))?.groups
  if (groups === undefined || text.length > 500)
    throw new DormouseError('invalid_argument', `"${text.slice(0, 200)}" is not the name of an image.`, {
      hint: 'Name it as for docker: `node:24`, `registry.example.com/team/web:1.2`, or `…@sha256:…`.',
      details: { field: 'image', value: text.slice(0, 200) },
    })
  const { first, path } = splitRegistry(groups['registry'], groups['path'] ?? '')
  const { tag, digest } = groups
  // skopeo refuses a tag together with a digest; the digest says more.
  const version = digest !== undefined ? `@${digest}` : `:${tag ?? 'latest'}`
  return { transport: 'docker', registry: first, reference: `docker://${first}/${path}${version}` }
}

/** As docker does: the first part is a registry if it has a dot or a port, or is `localhost`. */
function splitRegistry(registry: string | undefined, path: string): { first: string; path: string } {
  const isRegistry = registry !== undefined && (/[.:]/.test(registry) || registry === 'localhost')
  if (isRegistry && registry !== DEFAULT_REGISTRY) return { first: registry, path }
  const whole = registry === undefined || isRegistry ? path : `${registry}/${path}`
  return { first: DEFAULT_REGISTRY, path: whole.includes('/') ? whole : `library/${whole}` }
}
