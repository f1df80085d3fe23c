export interface Check {
  readonly id: string
  readonly title: string
  readonly status: 'ok' | 'warn' | 'fail'
  /** What was seen on this host. */
  readonly found: string
  /** What sandboxes use it for. */
  readonly meaning: string
  /** How to fix it; missing only if the status is `ok`. */
  readonly mend?: string
}

export interface CheckSubject {
  readonly id: string
  readonly title: string
  readonly meaning: string
}

export function ok(subject: CheckSubject, found: string): Check {
  return { ...subject, status: 'ok', found }
}

export function warn(subject: CheckSubject, found: string, mend: string): Check {
  return { ...subject, status: 'warn', found, mend }
}

export function fail(subject: CheckSubject, found: string, mend: string): Check {
  return { ...subject, status: 'fail', found, mend }
}
