"""The console command `tether train`."""
