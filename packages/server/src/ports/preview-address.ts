/** The address of a preview request. */
export interface PreviewAddress {
  /** A sandbox id or name. */
  readonly sandbox: string
  readonly port: number
  /** Path and query for the server in the sandbox. */
  readonly target: string
  /** The part of the path before the target. Undefined when the host name selects the port. */
  readonly prefix: string | undefined
}

const BY_PATH =
  /^(?<prefix>\/v1\/sandboxes\/(?<sandbox>[^/?]+)\/ports\/(?<port>[1-9]\d{0,4}))(?<target>\/.*)$/s
/** Host names know no upper case, and a dot begins another label: sandboxes with such names are named by path. */
const LABEL = /^(?<port>[1-9]\d{0,4})-(?<sandbox>[a-z0-9][a-z0-9_-]{0,56})$/
/** Routes of this server. Under a preview's host name every path belongs to the sandbox. */
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

function inHost(host: string, domain: string): { sandbox: string; port: number } | undefined {
  const name = host.toLowerCase().replace(/:\d*$/, '')
  if (!name.endsWith(`.${domain}`)) return undefined
  const { port, sandbox } = LABEL.exec(name.slice(0, -domain.length - 1))?.groups ?? {}
  if (sandbox === undefined || Number(port) > PORT_MAX) return undefined
  return { sandbox, port: Number(port) }
}

export interface PublicOrigin {
  /** `http` or `https`, as the client sees it. */
  readonly scheme: string
  /** Host and port that the client used to reach this server. */
  readonly host: string
}

/** The public URL of a port; ends with a slash. */
export function previewUrl(
  { scheme, host }: PublicOrigin,
  { sandboxId, port, domain }: { sandboxId: string; port: number; domain: string | undefined },
): string {
  if (domain === undefined) return `${scheme}://${host}/v1/sandboxes/${sandboxId}/ports/${port}/`
  const ownPort = /:\d+$/.exec(host)?.[0] ?? ''
  return `${scheme}://${port}-${sandboxId}.${domain}${ownPort}/`
}
