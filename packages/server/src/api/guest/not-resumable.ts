import { DormouseError } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'

/** For `attach` of work that cannot continue in another burrow: a move to another burrow ends it with `conflict`. */
export function notResumable<Item, Inside = Guest>(
  what: string,
  open: (guest: Inside) => AsyncIterable<Item>,
): (guest: Inside) => AsyncIterable<Item> {
  let isOpen = false
  return (guest) => {
    if (isOpen)
      throw new DormouseError('conflict', `${what} was interrupted by a standby, fork or rollback`, {
        hint: 'Try again.',
      })
    isOpen = true
    return open(guest)
  }
}
