import { isSandboxId, type SandboxId } from '@dormouse/contracts'

/** A request that is for something inside a sandbox. */
export interface PreviewAddress {
  /** An id; in a path also a name that the owner gave. */
  readonly sandbox: string
  readonly port: number
  /** Path and query as the server inside is to see them. */
  readonly target: string
  /** Of a path on the server's own name: what stands before the target. None by host name. */
  readonly prefix: string | undefined
}

const BY_PATH =
  /^(?<prefix>\/v1\/sandboxes\/(?<sandbox>[^/?]+)\/ports\/(?<port>[1-9]\d{0,4}))(?<target>\/.*)$/s
const LABEL = /^(?<port>[1-9]\d{0,4})-(?<sandbox>sb-[2-9a-km-np-z]{16})$/
/** Routes of ours. By host name every path belongs to the sandbox. */
const OURS = /^\/(?:link|wait|tcp)(?:\?|$)/
const PORT_MAX = 65_535

export function findPreview(
  { url = '', host = '' }: { url?: string | undefined; host?: string | undefined },
  domain: string | undefined,
): PreviewAddress | undefined {
  const named = domain === undefined ? undefined : inHost(host, domain)
  if (named !== undefined) return { ...named, target: url, prefix: undefined }
  const { prefix, sandbox, port, target } = BY_PATH.exec(url)?.groups ?? {}
  if (prefix === undefined || sandbox === undefined || target === undefined) return undefined
  if (Number(port) > PORT_MAX || OURS.test(target)) return undefined
  return { sandbox, port: Number(port), target, prefix }
}

function inHost(host: string, domain: string): { sandbox: SandboxId; port: number } | undefined {
  const name = host.toLowerCase().replace(/:\d*$/, '')
  if (!name.endsWith(`.${domain}`)) return undefined
  const { port, sandbox } = LABEL.exec(name.slice(0, -domain.length - 1))?.groups ?? {}
  if (sandbox === undefined || !isSandboxId(sandbox) || Number(port) > PORT_MAX) return undefined
  return { sandbox, port: Number(port) }
}

export interface PublicOrigin {
  /** `http` or `https`, as the caller sees it. */
  readonly scheme: string
  /** Name and port by which the caller has reached the server. */
  readonly host: string
}

/** Where a port is reached from outside; ends with a slash. */
export function previewUrl(
  { scheme, host }: PublicOrigin,
  { sandboxId, port, domain }: { sandboxId: string; port: number; domain: string | undefined },
): string {
  if (domain === undefined) return `${scheme}://${host}/v1/sandboxes/${sandboxId}/ports/${port}/`
  const ownPort = /:\d+$/.exec(host)?.[0] ?? ''
  return `${scheme}://${port}-${sandboxId}.${domain}${ownPort}/`
}
