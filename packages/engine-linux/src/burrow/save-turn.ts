import { DormouseError } from '@dormouse/contracts'

/** Whether a snapshot of a burrow is being taken: one at a time. */
export class SaveTurn {
  #isTaken = false
  #over: Promise<void> = Promise.resolve()
  #endOver: () => void = () => {}

  get isTaken(): boolean {
    return this.#isTaken
  }

  /** Throws `conflict` while it is taken. */
  take(): void {
    if (this.#isTaken)
      throw new DormouseError('conflict', 'A snapshot of this sandbox is being taken already.')
    this.#isTaken = true
    this.#over = new Promise((resolve) => {
      this.#endOver = resolve
    })
  }

  /** `isLast`: the burrow has ended, and no other snapshot may be taken. */
  end({ isLast }: { isLast: boolean }): void {
    this.#isTaken = isLast
    this.#endOver()
  }

  /** Resolves when no snapshot is being taken. */
  async untilOver(): Promise<void> {
    for (let over: Promise<void> | undefined; over !== this.#over; await over) over = this.#over
  }
}
