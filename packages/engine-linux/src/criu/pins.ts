import { DormouseError } from '@dormouse/contracts'

/** One build of Debian's package `criu` that may run on this host with root privileges. */
export interface CriuPin {
  /** Debian's version, with its revision. */
  readonly version: string
  /** SHA-256 of the .deb file, as hexadecimal digits. */
  readonly sha256: string
}

/**
 * Accepted builds by Debian's name of the architecture, the preferred one first. The tests run with amd64; arm64 was
 * taken from Debian's signed index and has not run here. To add a version, run the whole suite with it, then add its
 * line; older ones may stay.
 */
export const CRIU_PINS: Readonly<Record<string, readonly CriuPin[]>> = {
  amd64: [{ version: '4.2.1-1', sha256: '4039578de7dd6480964754c1348416f0f0658fba3eadaa918bfe43e9a5fb9b04' }],
  arm64: [{ version: '4.2.1-1', sha256: 'ad7dd296f5f6686ab3fdee3f983c942b8fe54af2fb3658d0cc37cd7298e2bc8d' }],
}

/** What an operator can do when no accepted build is available. */
export const PIN_HINT =
  'Get an accepted .deb from an archive of old Debian packages and name it with DORMOUSE_CRIU_DEB=FILE, ' +
  'accept another build with DORMOUSE_CRIU_PIN=VERSION:SHA256, or install a CRIU yourself: one in PATH that is new enough is used as it is.'

/** `4.2.1-1:40395…`. Throws `invalid_argument`. */
export function parseCriuPin(text: string): CriuPin {
  const { version, sha256 } =
    /^(?<version>[0-9][A-Za-z0-9.+~-]*):(?<sha256>[0-9a-f]{64})$/.exec(text)?.groups ?? {}
  if (version !== undefined && sha256 !== undefined) return { version, sha256 }
  throw new DormouseError(
    'invalid_argument',
    `DORMOUSE_CRIU_PIN must be VERSION:SHA256, such as 4.2.1-1:0123…, with 64 digits (saw "${text}")`,
    { details: { field: 'DORMOUSE_CRIU_PIN' } },
  )
}

/** Returns the offered build that is accepted. Throws `setup_failed`, naming both sides, when there is none. */
export function choosePin(
  architecture: string,
  { accepted, offered }: { accepted: readonly CriuPin[]; offered: readonly CriuPin[] },
): CriuPin {
  const pin = accepted.find((one) => offered.some((other) => isSame(one, other)))
  if (pin !== undefined) return pin
  if (accepted.length === 0)
    throw new DormouseError('setup_failed', `No build of CRIU is accepted for ${architecture} yet.`, {
      hint: PIN_HINT,
    })
  throw new DormouseError(
    'setup_failed',
    `The Debian mirror offers CRIU ${list(offered)}; accepted for ${architecture}: ${list(accepted)}.`,
    { hint: PIN_HINT },
  )
}

export function isSame(one: CriuPin, other: CriuPin): boolean {
  return one.version === other.version && one.sha256 === other.sha256
}

function list(pins: readonly CriuPin[]): string {
  const shown = pins.map(({ version, sha256 }) => `${version} (SHA-256 ${sha256})`)
  return shown.length === 0 ? 'no build' : shown.join(', ')
}
