const TILDE = 0x7e
const DOT = 0x2e
const ENTER = [0x0d, 0x0a]

/** Finds `~.` at the start of a line, as `ssh` does; `~~` there is one tilde. */
export class EscapeKeys {
  #state: 'inLine' | 'atStart' | 'afterTilde' = 'atStart'

  /** `send` is for the program inside. After `detach`, nothing more is. */
  feed(data: Uint8Array): { readonly send: Uint8Array; readonly detach: boolean } {
    const send: number[] = []
    for (const byte of data) {
      if (this.#state === 'afterTilde') {
        if (byte === DOT) return { send: Uint8Array.from(send), detach: true }
        send.push(TILDE)
        this.#state = this.#after(byte)
        if (byte !== TILDE) send.push(byte)
      } else if (this.#state === 'atStart' && byte === TILDE) this.#state = 'afterTilde'
      else {
        send.push(byte)
        this.#state = this.#after(byte)
      }
    }
    return { send: Uint8Array.from(send), detach: false }
  }

  #after(byte: number): 'inLine' | 'atStart' {
    return ENTER.includes(byte) ? 'atStart' : 'inLine'
  }
}
