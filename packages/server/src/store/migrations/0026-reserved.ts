/** The number belongs to another change. */
export const sql = ''
