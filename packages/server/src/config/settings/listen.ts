import { z } from 'zod'
import { optional, setting } from '../setting.ts'
import { absolutePath, address, port } from '../value-schemas.ts'

const ORIGINS_MAX = 64
const DOMAIN = /^(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*$/

const origin = z.string().refine(isOrigin, 'must be an origin such as https://app.example.com')

/** Where the server accepts connections. */
export const listenSettings = {
  host: setting(address, '127.0.0.1', {
    env: 'DORMOUSE_HOST',
    flag: '--host',
    argument: 'ADDRESS',
    summary: 'The address to listen on.',
    details: '`localhost` means 127.0.0.1.',
  }),
  port: setting(port, 7070, {
    env: 'DORMOUSE_PORT',
    flag: '--port',
    argument: 'N',
    summary: 'The port to listen on.',
    details: '0 picks any free port and writes it to `client.json` in the data directory.',
  }),
  tls: {
    certFile: optional(absolutePath, {
      env: 'DORMOUSE_TLS_CERT',
      flag: '--tls-cert',
      argument: 'FILE',
      summary: 'The certificate chain, as a PEM file.',
      details:
        'Needs `tls.keyFile`. The server reads it when it starts. In `config.json` and in the environment, the path must be ' +
        'absolute.',
    }),
    keyFile: optional(absolutePath, {
      env: 'DORMOUSE_TLS_KEY',
      flag: '--tls-key',
      argument: 'FILE',
      summary: 'The private key of the certificate, as a PEM file.',
    }),
  },
  allowInsecureBind: setting(z.boolean(), false, {
    env: 'DORMOUSE_INSECURE_BIND',
    flag: '--insecure-bind',
    summary: 'Listen on an address other than loopback without TLS.',
    details:
      'API keys and everything in sandboxes then travel unencrypted: use it only behind a proxy or in a network that you ' +
      'trust. Without it the server refuses to start (`insecure_bind`).',
  }),
  domain: optional(
    z.string().regex(DOMAIN, 'must be a host name in small letters, such as sandboxes.example.com'),
    {
      env: 'DORMOUSE_DOMAIN',
      summary: 'The DNS name of this server.',
      details:
        'Previews are at `<port>-<id>.<domain>`, so point a wildcard record and a wildcard certificate here. Without a ' +
        'domain, a server on loopback uses `localhost`. With TLS, `client.json` uses this name.',
    },
  ),
  cors: {
    origins: setting(z.array(origin).max(ORIGINS_MAX), [], {
      env: 'DORMOUSE_CORS_ORIGINS',
      summary: 'Origins (`https://app.example.com`) whose pages may call the API and `/mcp` from a browser.',
      details:
        'Write each origin exactly as browsers do; there is no wildcard. Separate them with commas in the environment. ' +
        'Previews are not affected: the program inside sets its own CORS headers.',
    }),
  },
  ssh: {
    enabled: setting(z.boolean(), true, {
      env: 'DORMOUSE_SSH',
      summary: 'Accept SSH connections ([guide](guides/ssh.md)).',
      details:
        'Only registered public keys can log in. If another program uses the port, the server says so and starts ' +
        'without SSH.',
    }),
    host: setting(address, '127.0.0.1', {
      env: 'DORMOUSE_SSH_HOST',
      flag: '--ssh-host',
      argument: 'ADDRESS',
      summary: 'The address to listen on for SSH.',
      details: 'Independent of `host`: SSH needs no TLS, but stays on loopback unless you set this.',
    }),
    port: setting(port, 2222, {
      env: 'DORMOUSE_SSH_PORT',
      flag: '--ssh-port',
      argument: 'N',
      summary: 'The port to listen on for SSH.',
      details: '0 picks any free port; `GET /v1/ssh` returns it.',
    }),
  },
}

/** An origin as a browser writes it: no path, no default port, no wildcard. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text
}
