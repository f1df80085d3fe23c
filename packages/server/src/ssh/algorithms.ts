/**
 * No weak algorithms, and none that needs ssh2's native part. The client's order decides. ChaCha20 is slow in
 * JavaScript; without it every current client chooses AES-GCM, which processors accelerate.
 */
export const ALGORITHMS = {
  kex: [
    'curve25519-sha256',
    'curve25519-sha256@libssh.org',
    'ecdh-sha2-nistp256',
    'ecdh-sha2-nistp384',
    'ecdh-sha2-nistp521',
  ],
  cipher: ['aes256-gcm@openssh.com', 'aes128-gcm@openssh.com', 'aes256-ctr'],
  hmac: ['hmac-sha2-512-etm@openssh.com', 'hmac-sha2-256-etm@openssh.com'],
  compress: ['none'],
} as const
