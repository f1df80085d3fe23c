import { z } from 'zod'
import { optional, setting } from '../setting.ts'
import { absolutePath, ipAddress } from '../value-schemas.ts'

const REGISTRY = /^(?!-)[a-zA-Z0-9-]{1,63}(\.[a-zA-Z0-9-]{1,63})*(:\d{1,5})?$/
const LIST_MAX = 64
const RESOLVERS_MAX = 8

/** How this host lets sandboxes out. */
export const networkSettings = {
  network: {
    defaultMode: setting(z.enum(['none', 'public']), 'public', {
      env: 'DORMOUSE_NETWORK',
      summary: 'Network mode of sandboxes created without a network policy: `public` or `none`.',
    }),
    resolvers: optional(z.array(ipAddress).min(1).max(RESOLVERS_MAX), {
      env: 'DORMOUSE_NETWORK_RESOLVERS',
      summary: 'Addresses of the DNS servers that answer for sandboxes.',
      details: 'Without them, the server uses the DNS servers of the host.',
    }),
    reachable: setting(
      z.array(z.union([z.cidrv4(), z.cidrv6()], 'must be a range of addresses')).max(LIST_MAX),
      [],
      {
        env: 'DORMOUSE_NETWORK_REACHABLE',
        summary: 'Private ranges (`10.1.0.0/16`) that policies with mode `allow` may name.',
        details: 'Addresses of this host are never reachable.',
      },
    ),
    ownAddresses: setting(z.array(ipAddress).max(LIST_MAX), [], {
      env: 'DORMOUSE_NETWORK_OWN_ADDRESSES',
      summary:
        'More addresses of this host, such as a public address that a cloud or a router translates to it.',
      details: 'No sandbox reaches them. The server already knows the addresses of its interfaces.',
    }),
    registries: optional(z.array(z.string().regex(REGISTRY, 'must be `host` or `host:port`')).max(LIST_MAX), {
      env: 'DORMOUSE_NETWORK_REGISTRIES',
      summary: 'Package registries (`host` or `host:port`).',
      details:
        'Sandboxes with mode `public` reach them even at a private address. Without this setting, the server takes them ' +
        'from the apt, pip and npm configuration of the host.',
    }),
    proxy: optional(
      z.union(
        [z.literal('none'), z.url({ protocol: /^https?$/ })],
        'must be a URL such as http://proxy.example.com:3128, or `none`',
      ),
      {
        env: 'DORMOUSE_NETWORK_PROXY',
        summary: 'The HTTP proxy that carries connections of sandboxes, or `none`.',
        details: 'Without this setting, the server uses `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.',
      },
    ),
    proxyResolves: optional(z.boolean(), {
      env: 'DORMOUSE_NETWORK_PROXY_RESOLVES',
      summary:
        'Let the proxy resolve names, for networks whose DNS servers do not know names of the internet.',
      details:
        'The proxy must then refuse names that resolve to private addresses; rules for names and ports still apply. ' +
        'Without this setting, the proxy resolves names only if no DNS server answers; with `false`, never.',
    }),
    // More than a browser opens, and few enough that a thousand sandboxes fit into the server's descriptor limit.
    maxConnections: setting(z.int().min(1).max(65_536), 512, {
      env: 'DORMOUSE_NETWORK_MAX_CONNECTIONS',
      summary: 'How many outgoing connections one sandbox may have at a time.',
    }),
    // Each takes two descriptors; half a gigabyte of buffers if the other end of every one of them stalls.
    maxConnectionsTotal: setting(z.int().min(16).max(65_536), 4096, {
      env: 'DORMOUSE_NETWORK_MAX_CONNECTIONS_TOTAL',
      summary: 'How many outgoing connections all sandboxes may have together.',
      details:
        'When all are taken and a key with fewer connections needs one, the server closes one of the key that has most, ' +
        'and of that key, one of the sandbox that has most.',
    }),
    caFile: optional(absolutePath, {
      env: 'DORMOUSE_NETWORK_CA_FILE',
      summary:
        'More certificate authorities (PEM, absolute path) for servers that receive a [secret](guides/secrets.md).',
      details: 'The authorities that the host trusts are always accepted.',
    }),
  },
}
