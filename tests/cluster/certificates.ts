import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** An authority, and a certificate for loopback that it has signed. */
export function makeCertificates(into: string): { ca: string; cert: string; key: string } {
  const at = (name: string) => join(into, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore', cwd: into })
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  openssl('req', '-x509', ...curve, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=ca')
  openssl('req', ...curve, '-keyout', 'host.key', '-out', 'host.csr', '-subj', '/CN=127.0.0.1')
  execFileSync('sh', ['-c', 'printf "subjectAltName=IP:127.0.0.1,DNS:localhost\\n" > san'], { cwd: into })
  openssl(
    ...['x509', '-req', '-in', 'host.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'],
    ...['-days', '2', '-extfile', 'san', '-out', 'host.pem'],
  )
  return { ca: at('ca.pem'), cert: at('host.pem'), key: at('host.key') }
}
