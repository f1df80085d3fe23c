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

/** The address of a request to a service. */
export interface ServiceAddress {
  /** A service id or name. */
  readonly service: string
  readonly target: string
  readonly prefix: string | undefined
}

const SERVICE_BY_PATH = /^(?<prefix>\/v1\/services\/(?<service>[^/?]+)\/http)(?<target>\/.*)$/s
const SERVICE_LABEL = /^sv-[2-9a-km-np-z]{16}$/

const BY_PATH = /^(\/v1\/sandboxes\/([^/?]+)\/ports\/([1-9]\d{0,4}))(\/.*)$/s
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
  const [, prefix, sandbox, port, target] = BY_PATH.exec(url) ?? []
  if (prefix === undefined || sandbox === undefined || target === undefined) return undefined
  if (Number(port) > PORT_MAX || OURS.test(target)) return undefined
  return { sandbox, port: Number(port), target, prefix }
}

function inHost(host: string, domain: string): { sandbox: string; port: number } | undefined {
  const { port, sandbox } = LABEL.exec(labelIn(host, domain) ?? '')?.groups ?? {}
  if (sandbox === undefined || Number(port) > PORT_MAX) return undefined
  return { sandbox, port: Number(port) }
}

/** By host name only its id: two keys may have given one name. */
export function findService(
  { url = '', host = '' }: { url?: string | undefined; host?: string | undefined },
  domain: string | undefined,
): ServiceAddress | undefined {
  const label = domain === undefined ? undefined : labelIn(host, domain)
  if (label !== undefined && SERVICE_LABEL.test(label))
    return { service: label, target: url, prefix: undefined }
  const { prefix, service, target } = SERVICE_BY_PATH.exec(url)?.groups ?? {}
  if (prefix === undefined || service === undefined || target === undefined) return undefined
  return { service, target, prefix }
}

function labelIn(host: string, domain: string): string | undefined {
  const name = host.toLowerCase().replace(/:\d*$/, '')
  return name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : undefined
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

/** The public URL of a service; ends with a slash. */
export function serviceUrl(
  { scheme, host }: PublicOrigin,
  { serviceId, domain }: { serviceId: string; domain: string | undefined },
): string {
  if (domain === undefined) return `${scheme}://${host}/v1/services/${serviceId}/http/`
  const ownPort = /:\d+$/.exec(host)?.[0] ?? ''
  return `${scheme}://${serviceId}.${domain}${ownPort}/`
}
