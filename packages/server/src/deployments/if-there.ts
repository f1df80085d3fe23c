import { hasErrorCode } from '@dormouse/contracts'

/** Ignores that what `work` removes is gone already. */
export async function ifThere(
  work: Promise<void>,
  missing: 'not_found' | 'template_not_found',
): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!hasErrorCode(error, missing)) throw error
  }
}
