//! Points in time as people read them.

/// `2026-12-01 04:40`, in UTC.
pub fn minute(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    let (mut year, mut day) = (1970_u64, days);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // A row whose clock was beyond all sense is no reason to count for long.
    while year < 9999 && day >= if is_leap(year) { 366 } else { 365 } {
        day -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02}", day + 1, seconds / 3600, seconds % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, told) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_772_323_200, "2026-03-01 00:00"),
            (1_798_761_599, "2026-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(minute(unix_s), told);
        }
        assert!(minute(u64::MAX).starts_with("9999-"));
    }
}
